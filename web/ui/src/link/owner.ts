import { ApiError, patience, send, socketUrlOf } from '../api/http';
import { follow, type Following, type SocketEvent } from './socket';

interface Handlers {
  onEvent: (event: SocketEvent) => void;
  onState: (online: boolean) => void;
  /** The first attempt has failed. */
  onAway: () => void;
}

/** Follows everything the user owns: threads that are created, changed and deleted, calls and turns that begin and end. */
export function followOwner({ onEvent, onState, onAway }: Handlers): Following {
  let connected = false;
  let first = true;
  return follow({
    url: () => socketUrlOf('api/ws').href,
    after: () => 0,
    onEvent,
    onState: (online) => {
      connected ||= online;
      // If it never worked, nothing was missed.
      if (connected) onState(online);
      else if (first) onAway();
      first = false;
    },
    beforeRetry: () => isOffered(connected),
  });
}

// A plain request is told that this is a WebSocket; a server without it, or without this user, says so.
// A session may end later, too, and the request asks the user to sign in again. Who is not signed in yet was asked before.
async function isOffered(before: boolean): Promise<boolean> {
  try {
    await send('api/ws', { signal: patience() }, before);
  } catch (thrown) {
    return !(thrown instanceof ApiError && (before ? [401] : [401, 403, 404]).includes(thrown.status));
  }
  return true;
}
