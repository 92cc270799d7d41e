/** An error whose message is meant for people. */
export class PlainError extends Error {
  /** @param code a stable word for the page's own decisions */
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}
