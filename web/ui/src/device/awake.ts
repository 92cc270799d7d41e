// What the device around the page does during a call.

/** Keeps the screen on until the returned function is called, if the browser supports it. */
export function keepAwake(): () => void {
  let lock: WakeLockSentinel | undefined;
  let over = false;
  // The browser releases the lock whenever the page is hidden.
  const take = () => {
    if (over || document.visibilityState !== 'visible' || !('wakeLock' in navigator)) return;
    navigator.wakeLock.request('screen').then(
      (got) => {
        if (over) void got.release();
        else lock = got;
      },
      () => undefined, // For example a low battery: the call goes on regardless.
    );
  };
  document.addEventListener('visibilitychange', take);
  take();
  return () => {
    over = true;
    document.removeEventListener('visibilitychange', take);
    void lock?.release();
  };
}

interface LockScreen {
  title: string;
  onMute: () => void;
  onHangup: () => void;
}

/** Shows the call on the lock screen until the returned function is called, if the browser supports it. */
export function onLockScreen({ title, onMute, onHangup }: LockScreen): () => void {
  const session = navigator.mediaSession as MediaSession | undefined;
  if (!session) return () => undefined;
  const handlers: [MediaSessionAction, () => void][] = [
    ['togglemicrophone' as MediaSessionAction, onMute],
    ['hangup' as MediaSessionAction, onHangup],
    ['stop', onHangup],
  ];
  session.metadata = new MediaMetadata({ title, artist: 'voicebridge' });
  session.playbackState = 'playing';
  for (const [action, handler] of handlers) handle(session, action, handler);
  return () => {
    session.metadata = null;
    session.playbackState = 'none';
    for (const [action] of handlers) handle(session, action, null);
  };
}

// Browsers refuse actions that they do not know.
function handle(session: MediaSession, action: MediaSessionAction, handler: (() => void) | null): void {
  try {
    session.setActionHandler(action, handler);
  } catch {
    // One button less.
  }
}
