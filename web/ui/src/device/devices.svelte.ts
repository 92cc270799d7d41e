/** A microphone or a loudspeaker. */
export interface Device {
  id: string;
  label: string;
}

/** The devices of one kind that a browser lists; those without a name are not disclosed yet. */
export function devicesOf(list: Pick<MediaDeviceInfo, 'kind' | 'deviceId' | 'label'>[], kind: MediaDeviceKind): Device[] {
  return list
    .filter((device) => device.kind === kind && device.deviceId !== '' && device.deviceId !== 'default' && device.label !== '')
    .map(({ deviceId, label }) => ({ id: deviceId, label }));
}

/** The microphones and loudspeakers, updated as they come and go. */
export class Devices {
  microphones = $state.raw<Device[]>([]);
  speakers = $state.raw<Device[]>([]);

  /** Follows the devices until the returned function is called. */
  follow(): () => void {
    const media = navigator.mediaDevices;
    if (!media?.enumerateDevices) return () => undefined;
    const read = () =>
      void media.enumerateDevices().then(
        (list) => {
          this.microphones = devicesOf(list, 'audioinput');
          this.speakers = devicesOf(list, 'audiooutput');
        },
        () => undefined, // The list stays as it was.
      );
    read();
    media.addEventListener('devicechange', read);
    return () => media.removeEventListener('devicechange', read);
  }
}
