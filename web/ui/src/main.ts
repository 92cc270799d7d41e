import { mount } from 'svelte';
import { App } from './page/app.svelte';
import Page from './view/App.svelte';
import { keepFocus } from './view/parts/focus';
import { language } from './words/language.svelte';

await language.begin();
const app = new App();

// For tests, which read the connection's statistics.
declare global {
  interface Window {
    voicebridge: { readonly pc: RTCPeerConnection | null };
  }
}
window.voicebridge = {
  get pc() {
    return app.call.pc;
  },
};

// A page that the browser had put aside has lost its call and its sockets.
addEventListener('pageshow', (event) => {
  if (event.persisted) location.reload();
});

const target = document.getElementById('app');
if (target) mount(Page, { target, props: { app } });
keepFocus();
void app.begin();
