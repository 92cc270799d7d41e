/** A text in English and in German. The build takes one of them, for it loads the languages apart (vite.config.ts). */
export function both(english: string, german: string): string;
export function both<Text>(english: Text, german: Text): Text;
export function both<Text>(english: Text, _german: Text): Text {
  return english;
}
