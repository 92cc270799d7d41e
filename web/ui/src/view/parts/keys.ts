/** Whether a key press is Enter by itself, and does not end the composition of a character (in Safari: 229). */
export function isEnter({ key, isComposing, keyCode }: KeyboardEvent): boolean {
  return key === 'Enter' && !isComposing && keyCode !== 229;
}
