// The other side of Twilio's media streams: a caller's telephone.

/** A piece of linear sound at 24 kHz as µ-law at 8 kHz (G.711). */
export function ulaw(piece) {
  const linear = new Int16Array(piece.buffer).filter((_, i) => i % 3 === 0);
  return Uint8Array.from(linear, (sample) => {
    const size = Math.min(Math.abs(sample), 32635) + 132;
    const exponent = Math.floor(Math.log2(size)) - 7;
    return ~((sample < 0 ? 0x80 : 0) | exponent << 4 | size >> exponent + 3 & 0x0f) & 0xff;
  });
}

/** The socket that Twilio opens to an app. It plays what it gets, and says when a mark is reached. */
export class Phone extends EventTarget {
  #said = 0; // ms
  #until = 0; // when what it has will have been played
  #marks = new Map();

  #tell(event) { this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify({ streamSid: 'MZ1', ...event }) })); }

  start() { this.#tell({ event: 'start', start: { streamSid: 'MZ1', mediaFormat: { encoding: 'audio/x-mulaw', sampleRate: 8000, channels: 1 } } }); }

  speak(sound) {
    const payload = Buffer.from(sound).toString('base64');
    this.#tell({ event: 'media', media: { track: 'inbound', timestamp: String(this.#said), payload } });
    this.#said += sound.length / 8;
  }

  send(message) {
    const { event, media, mark } = JSON.parse(message);
    const now = performance.now();
    switch (event) {
      case 'media': this.#until = Math.max(this.#until, now) + Buffer.from(media.payload, 'base64').length / 8; break;
      case 'mark': this.#marks.set(mark.name, setTimeout(() => this.#reach(mark.name), this.#until - now)); break;
      case 'clear':
        this.#until = now;
        for (const [name, timer] of this.#marks) { clearTimeout(timer); this.#reach(name); }
    }
  }

  #reach(name) {
    this.#marks.delete(name);
    this.#tell({ event: 'mark', mark: { name } });
  }

  close() {}
}
