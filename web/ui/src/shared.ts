import './shared.css';
import { parseJson } from './base/json';
import { loadChart } from './charts/draw';
import { banOf, tableOf } from './charts/html';
import { lookOf, pageColors } from './charts/look';
import { readChart, type Chart } from './charts/output';
import { language, t } from './words/language.svelte';

// Draws the charts of the page that is shown by a link, and plays what was said; the server writes all else.

const dark = matchMedia('(prefers-color-scheme: dark)').matches;

function piece(kind: string, text = '', ...inside: Element[]): HTMLElement {
  const element = document.createElement(kind);
  element.textContent = text;
  element.append(...inside);
  return element;
}

function tableFrom({ data }: Chart): HTMLElement {
  const { columns, rows } = tableOf(data);
  const head = piece('tr', '', ...columns.map(({ label }) => piece('th', label)));
  return piece('table', '', head, ...rows.map((row) => piece('tr', '', ...row.map((cell) => piece('td', cell)))));
}

async function draw(figure: HTMLElement): Promise<void> {
  const chart = readChart(parseJson(figure.dataset.chart ?? ''));
  if (!chart) return;
  if (chart.description) figure.append(piece('p', chart.description));
  if (chart.kind === 'table' || chart.kind === 'ban') {
    const shown = chart.kind === 'table' ? tableFrom(chart) : piece('p', banOf(chart.data).value);
    if (chart.kind === 'ban') shown.className = 'big';
    figure.append(shown);
  } else {
    const picture = piece('div');
    picture.className = dark ? 'picture dark' : 'picture';
    picture.role = 'img';
    picture.ariaLabel = chart.title;
    figure.append(picture);
    (await loadChart(chart, lookOf(dark, pageColors(picture))))(picture, false);
  }
  figure.dataset.drawn = 'true';
}

/** Each message with a sound gets a button, which plays from there to the end. */
function listen(articles: HTMLElement[]): void {
  const audio = new Audio();
  let at = -1;
  const show = () => {
    for (const [i, article] of articles.entries()) {
      const playing = i === at && !audio.paused;
      article.classList.toggle('playing', playing);
      const button = article.querySelector('button');
      if (button) [button.textContent, button.ariaLabel] = playing ? ['❚❚', t().transcript.stopHearing] : ['▶', t().transcript.hear];
    }
  };
  const play = (next: number) => {
    const article = articles[next];
    if (!article) return show();
    if (at !== next) audio.src = article.dataset.sound ?? '';
    at = next;
    article.scrollIntoView({ block: 'nearest' });
    audio.play().catch(show);
  };
  for (const [i, article] of articles.entries()) {
    const button = document.createElement('button');
    button.onclick = () => (i === at && !audio.paused ? audio.pause() : play(i));
    article.querySelector('h2')?.append(button);
  }
  audio.onplay = audio.onpause = show;
  // What is gone by now is left out.
  audio.onended = audio.onerror = () => play(at + 1);
  show();
}

await language.begin();
listen([...document.querySelectorAll<HTMLElement>('[data-sound]')]);
for (const figure of document.querySelectorAll<HTMLElement>('[data-chart]')) void draw(figure).catch(() => undefined);
