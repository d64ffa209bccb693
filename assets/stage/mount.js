// The stage on the page: built, built anew in another language, and replaced by plain text where drawing fails.

import { buildStage } from './stage.js';
import { showPlain } from './plain.js';

// Returns {show, destroy}. Where drawing fails, now or later, the rounds stand as plain text instead.
export function mountStage(root, host) {
  let trace = host.config.first;
  let stage = null;
  let failed = false;
  const fail = (error) => {
    if (!failed) console.error(error);
    failed = true;
    stage?.destroy();
    stage = null;
    if (trace) showPlain(root, trace);
  };
  // Built anew around the same run and controls where the language changes.
  const build = (config, kept) => {
    stage = buildStage(root, { ...host, config, rebuild: (changes, now) => {
      stage.destroy();
      build({ ...config, ...changes }, now);
    } }, fail, kept);
    if (failed) fail();
  };
  try {
    build(host.config, null);
  } catch (error) {
    fail(error);
  }
  return {
    show(value) {
      trace = value?.trace ?? trace;
      try {
        if (stage) stage.show(value);
        else if (trace) showPlain(root, trace);
      } catch (error) {
        fail(error);
      }
    },
    destroy() { stage?.destroy(); },
  };
}
