// How many bets were right, on any page, as this browser remembers.

import { recall, remember } from './memory.js';

export function scoreBet(right) {
  const score = JSON.parse(recall('bets') ?? '{"right":0,"made":0}');
  score.made += 1;
  score.right += right;
  remember('bets', JSON.stringify(score));
  return score;
}
