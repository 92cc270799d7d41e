// What is known about the connection to the server, from three sources: the browser's word on the
// network, requests and sockets, and the call's peer connection. So one cause is reported once.

/** How far the call's connection has got. */
export type PeerStep = 'none' | 'asking' | 'connecting' | 'connected' | 'weak';

export interface Connection {
  /** The browser reports a network. */
  network: boolean;
  /** The last request was answered. */
  server: boolean;
  /** All sockets that the page wants are open. */
  socket: boolean;
  peer: PeerStep;
  /** When the peer reached its step, in milliseconds. */
  since: number;
}

export const goodConnection: Connection = { network: true, server: true, socket: true, peer: 'none', since: 0 };

export type Fact =
  | { of: 'network'; up: boolean }
  | { of: 'server'; up: boolean }
  | { of: 'socket'; up: boolean }
  | { of: 'peer'; step: PeerStep; at: number };

/** Takes in one fact. Known facts change nothing. */
export function learn(known: Connection, fact: Fact): Connection {
  switch (fact.of) {
    case 'network':
      return known.network === fact.up ? known : { ...known, network: fact.up };
    case 'server':
      // An answer means that there is a network, too.
      if (fact.up) return known.server && known.network ? known : { ...known, server: true, network: true };
      return known.server ? { ...known, server: false } : known;
    case 'socket': {
      const server = fact.up || known.server;
      return known.socket === fact.up && known.server === server ? known : { ...known, socket: fact.up, server };
    }
    case 'peer':
      return known.peer === fact.step ? known : { ...known, peer: fact.step, since: fact.at };
  }
}

/**
 * What is wrong, the root first: no network; the server does not answer; it is slow to take the call;
 * the sound does not get through; the call's path is weak; only the socket is broken.
 */
export type Trouble = 'offline' | 'away' | 'slow' | 'media' | 'weak' | 'reconnecting' | null;

/** After this long, a call that is not up is reported as a problem. */
export const patienceMs = 10_000;

export function troubleOf({ network, server, socket, peer, since }: Connection, now: number): Trouble {
  if (!network) return 'offline';
  if (!server) return 'away';
  const late = now - since >= patienceMs;
  if (peer === 'asking' && late) return 'slow';
  if (peer === 'connecting' && late) return 'media';
  if (peer === 'weak') return 'weak';
  return socket ? null : 'reconnecting';
}
