// Pictures of what a camera or a shared screen shows.

/** What can be looked at. */
export type Subject = 'camera' | 'screen';

/** Something that is looked at, until it is closed. */
export interface View {
  /** A picture of what it shows now, as a data URL of at most that many characters. */
  picture: (most: number) => string;
  /** The same in its full size, to be kept. */
  photo: () => Promise<Blob>;
  /** Called when the user has ended it in the browser's own way. */
  onended: () => void;
  close: () => void;
}

const asked: Record<Subject, MediaStreamConstraints> = {
  camera: { video: { facingMode: 'environment', width: { ideal: 1920 } } },
  screen: { video: { frameRate: 5 } },
};
/** Until a camera has adapted to the light, and the browser's question is off the screen. */
const settleMs = 500;
const pollMs = 50;
/** A device that shows nothing for so long does not work. */
const patienceMs = 15_000;

/** What this device has, as far as browsers tell without being allowed more. */
export async function subjects(): Promise<Subject[]> {
  const media = typeof navigator === 'object' && isSecureContext ? navigator.mediaDevices : undefined;
  const devices = (await media?.enumerateDevices?.().catch(() => [])) ?? [];
  const camera = devices.some(({ kind }) => kind === 'videoinput');
  return [...(camera ? (['camera'] as const) : []), ...(typeof media?.getDisplayMedia === 'function' ? (['screen'] as const) : [])];
}

/** Opens the camera, or asks the user for a screen to share; throws what the browser throws. */
export async function openView(subject: Subject): Promise<View> {
  const media = navigator.mediaDevices;
  const stream = await (subject === 'camera' ? media.getUserMedia(asked.camera) : media.getDisplayMedia(asked.screen));
  // It plays also where nobody sees it: the user may be in another window, where the browser draws no frames of this page.
  const video = document.createElement('video');
  video.muted = video.playsInline = true;
  video.srcObject = stream;
  const close = () => {
    stream.getTracks().forEach((track) => track.stop());
    video.srcObject = null;
  };
  const view: View = { picture: (most) => smallEnough(video, most), photo: () => photo(video), onended: () => undefined, close };
  try {
    await video.play();
    const until = performance.now() + patienceMs;
    while (video.videoWidth === 0 || video.readyState < video.HAVE_CURRENT_DATA) {
      if (performance.now() > until) throw new Error('it shows nothing');
      await later(pollMs);
    }
    await later(settleMs);
  } catch (thrown) {
    close();
    throw thrown;
  }
  for (const track of stream.getTracks()) track.onended = () => view.onended();
  return view;
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The longest sides in pixels and the qualities of JPEG that are tried until a picture is small enough. */
const sides = [1600, 1200, 800, 480];
const qualities = [0.85, 0.65, 0.45];

function draw(video: HTMLVideoElement, canvas: HTMLCanvasElement, side: number): void {
  const { videoWidth, videoHeight } = video;
  const scale = Math.min(1, side / Math.max(videoWidth, videoHeight));
  canvas.width = Math.max(1, Math.round(videoWidth * scale));
  canvas.height = Math.max(1, Math.round(videoHeight * scale));
  canvas.getContext('2d')?.drawImage(video, 0, 0, canvas.width, canvas.height);
}

/** The longest side of a picture that is uploaded. */
const photoSide = 2560;

function photo(video: HTMLVideoElement): Promise<Blob> {
  const canvas = document.createElement('canvas');
  draw(video, canvas, photoSide);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('there is no picture'))), 'image/jpeg', 0.9));
}

function smallEnough(video: HTMLVideoElement, most: number): string {
  const canvas = document.createElement('canvas');
  for (const side of sides) {
    draw(video, canvas, side);
    for (const quality of qualities) {
      const url = canvas.toDataURL('image/jpeg', quality);
      if (url.length <= most) return url;
    }
  }
  throw new Error('the picture is too large');
}
