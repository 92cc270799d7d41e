/** Whether a key is pressed by itself, and not to compose a character (in Safari: 229). */
function isAlone({ isComposing, keyCode }: KeyboardEvent): boolean {
  return !isComposing && keyCode !== 229;
}

export const isEnter = (event: KeyboardEvent): boolean => event.key === 'Enter' && isAlone(event);

export const isEscape = (event: KeyboardEvent): boolean => event.key === 'Escape' && isAlone(event);
