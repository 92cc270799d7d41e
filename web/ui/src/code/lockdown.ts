// What a worker's policy does not close: here it is taken away by name. The policy
// gives the worker an origin of nobody, so this is the second lock, not the first.

const ways = [
  // to the network
  'fetch', 'fetchLater', 'XMLHttpRequest', 'WebSocket', 'WebSocketStream', 'WebTransport', 'EventSource', 'RTCPeerConnection',
  'RTCDataChannel', 'Request', 'Response', 'FontFace', 'fonts', 'Notification', 'NotificationEvent', 'PushManager',
  // to other code
  'importScripts', 'Worker', 'SharedWorker', 'ServiceWorker', 'ServiceWorkerContainer', 'ServiceWorkerRegistration',
  // to storage, devices and other pages of this origin
  'indexedDB', 'IDBFactory', 'caches', 'Cache', 'CacheStorage', 'cookieStore', 'CookieStore', 'StorageManager', 'StorageBucketManager',
  'FileSystemHandle', 'FileSystemFileHandle', 'FileSystemDirectoryHandle', 'FileSystemSyncAccessHandle', 'webkitRequestFileSystem',
  'webkitRequestFileSystemSync', 'webkitResolveLocalFileSystemURL', 'webkitResolveLocalFileSystemSyncURL', 'BroadcastChannel',
  'LockManager', 'Lock', 'SharedStorage', 'USB', 'HID', 'Serial', 'GPU', 'Permissions', 'navigator', 'WorkerNavigator',
  // to the page
  'postMessage', 'close', 'onmessage', 'onmessageerror', 'onrtctransform',
] as const;

/** Takes the ways out of a worker away, also where the prototypes keep them. */
export function lockDown(scope: object): void {
  for (let owner: object | null = scope; owner !== null && owner !== Object.prototype; owner = Object.getPrototypeOf(owner) as object | null) {
    for (const name of ways) {
      if (!Object.hasOwn(owner, name)) continue;
      if (Reflect.deleteProperty(owner, name)) continue;
      Reflect.defineProperty(owner, name, { value: undefined, writable: false, configurable: false });
    }
  }
}
