// Lecture mode: half as large again, where the screen is large enough for the whole stage.

import { clamp, setVar } from './dom.js';

// Returns the switch. Leaving full screen by the browser's own key leaves lecture mode too; `signal` ends the listening.
export function createLecture(root, signal, resized) {
  function lecture() {
    const on = root.classList.toggle('lecture');
    setVar(root, '--zoom', on ? clamp(Math.min(screen.height / 640, screen.width / 1024), 1, 1.5) : 1);
    if (on) root.requestFullscreen?.().catch(() => {}); // larger type alone, where that is forbidden
    else if (document.fullscreenElement) document.exitFullscreen();
    resized();
  }

  document.addEventListener('fullscreenchange', () => {
    if (!document.fullscreenElement && root.classList.contains('lecture')) lecture();
  }, { signal });
  return lecture;
}
