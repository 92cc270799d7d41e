// One catalogue with one of its languages, which the build takes out of it.
declare module '*?en' {
  export const words: any;
}
declare module '*?de' {
  export const words: any;
}
