/** The words that say what a call is doing. */
export type Word =
  | 'idle'
  | 'permission'
  | 'connecting'
  | 'listening'
  | 'hearing'
  | 'muted'
  | 'held'
  | 'thinking'
  | 'tool'
  | 'approval'
  | 'speaking'
  | 'renewing'
  | 'recovering'
  | 'ended';
