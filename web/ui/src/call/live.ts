// What only a call needs: loaded with the first one.
export { keepAwake, onLockScreen } from '../device/awake';
export { Line } from './line';
export { callUrl, isCallActive } from './peer';
export { failureOf, reduce } from './reduce';
export { sightOf } from './offer';
export { sessionUpdate, speedOf } from './sessionupdate';
export { Speech } from './speech';
export { summaryOf } from './summary';
export { ToolRuns } from './toolruns';
export { endingWords, isBadEnding } from '../words/ending';
