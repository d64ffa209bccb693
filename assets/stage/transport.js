// Buttons and keys of the player.

import { h, setText } from './dom.js';
import { SPEEDS } from './player.js';

export function createTransport(t, player, strip, buttons) {
  const button = (name, sign, action) => h('button', { type: 'button', class: `key ${name}`, 'aria-label': t(`player.${name}`), title: t(`player.${name}.tip`), onclick: action }, sign);
  const play = button('play', '▶', () => toggle());
  const speed = h('select', { class: 'speed', 'aria-label': t('player.speed'), title: t('player.speed.tip') },
    ...SPEEDS.map((value) => h('option', { value }, value === 'auto' ? t('player.auto') : `${value === 0.5 ? '½' : value}×`)));
  speed.addEventListener('change', () => { player.speed = speed.value === 'auto' ? 'auto' : Number(speed.value); });
  const label = h('span', { class: 'where' });

  function toggle() {
    if (player.playing) player.pause();
    else player.play();
  }

  return {
    root: h('div', { class: 'transport' },
      h('div', { class: 'keys', role: 'group', 'aria-label': t('player.label') },
        button('back', '‹', () => player.step(-1)), play, button('forward', '›', () => player.step(1)), speed, ...buttons, label),
      strip.root),
    update(text) {
      setText(play, player.playing ? '❚❚' : '▶');
      play.setAttribute('aria-label', t(player.playing ? 'player.pause' : 'player.play'));
      setText(label, text);
    },
    // Returns whether the key was one of the player's.
    key(event) {
      const action = {
        ' ': toggle,
        ArrowRight: () => (event.shiftKey ? player.stepPass(1) : player.step(1)),
        ArrowLeft: () => (event.shiftKey ? player.stepPass(-1) : player.step(-1)),
        Home: () => player.seek(0),
        End: () => player.seek(Infinity),
      }[event.key];
      action?.();
      return Boolean(action);
    },
  };
}
