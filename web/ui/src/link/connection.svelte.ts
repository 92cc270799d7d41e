import { onReachability, reachable } from '../api/http';
import { goodConnection, learn, troubleOf, type Fact, type PeerStep } from './connection';

const tickMs = 1000;
const probeMs = 3000;

/** The state of the connection to the server, for display. */
export class ConnectionWatch {
  #known = $state.raw(goodConnection);
  #now = $state(0);
  trouble = $derived(troubleOf(this.#known, this.#now));

  #sockets = new Map<unknown, boolean>();
  #ticking: ReturnType<typeof setInterval> | undefined;
  #probing: ReturnType<typeof setTimeout> | undefined;

  /** @param onBack is called when the server answers again */
  constructor(private readonly onBack: () => void) {
    onReachability((up) => this.#learn({ of: 'server', up }));
    addEventListener('online', () => this.#network(true));
    addEventListener('offline', () => this.#network(false));
  }

  peer(step: PeerStep): void {
    this.#learn({ of: 'peer', step, at: Date.now() });
    // A weak path is the first sign of a lost server.
    if (step === 'weak') void reachable();
    clearInterval(this.#ticking);
    this.#ticking = step === 'asking' || step === 'connecting' ? setInterval(() => (this.#now = Date.now()), tickMs) : undefined;
  }

  // A server on this machine is there without a network, too.
  #network(up: boolean): void {
    this.#learn({ of: 'network', up });
    void reachable();
  }

  /** Records the state of one socket; undefined forgets it. */
  socket(of: unknown, up: boolean | undefined): void {
    if (up === undefined) this.#sockets.delete(of);
    else this.#sockets.set(of, up);
    this.#learn({ of: 'socket', up: [...this.#sockets.values()].every(Boolean) });
    // A socket does not say why it broke; a request does, at once.
    if (up === false) void reachable();
  }

  /** Checks the server right now. */
  retry(): void {
    void reachable();
  }

  #learn(fact: Fact): void {
    const before = this.#known;
    this.#now = Date.now();
    this.#known = learn(before, fact);
    if (!before.server && this.#known.server) this.onBack();
    if (!this.#known.server) this.#probing ??= setTimeout(() => this.#probe(), probeMs);
  }

  #probe(): void {
    this.#probing = undefined;
    if (!this.#known.server) void reachable();
  }
}
