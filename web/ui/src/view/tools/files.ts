// Saving what a tool drew.

/** Makes the browser save a file. */
export function save(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** A title as a file name. */
export function fileName(title: string, kind: string): string {
  const stem = title
    .normalize('NFKD')
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 60);
  return `${stem || 'chart'}.${kind}`;
}

/** The drawing below an element as SVG with a background; null if there is none yet. */
export function svgBelow(element: ParentNode, background: string): { text: string; width: number; height: number } | null {
  const drawn = element.querySelector('.picture svg');
  if (!(drawn instanceof SVGSVGElement)) return null;
  const { width, height } = drawn.getBoundingClientRect();
  const svg = drawn.cloneNode(true) as SVGSVGElement;
  svg.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  svg.setAttribute('width', String(width));
  svg.setAttribute('height', String(height));
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const ground = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  for (const [key, value] of Object.entries({ width: '100%', height: '100%', fill: background })) ground.setAttribute(key, value);
  svg.prepend(ground);
  return { text: new XMLSerializer().serializeToString(svg), width, height };
}

/** Turns an SVG into a PNG of twice its size. */
export async function pngOf({ text, width, height }: { text: string; width: number; height: number }): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  Object.assign(canvas, { width: width * 2, height: height * 2 });
  const context = canvas.getContext('2d');
  context?.scale(2, 2);
  context?.drawImage(image, 0, 0, width, height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('no picture'))), 'image/png'));
}
