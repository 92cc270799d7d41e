import { mount } from 'svelte';
import './app.css';
import App from './view/App.svelte';
import { app } from './view/state.svelte';

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

const target = document.getElementById('app');
if (target) mount(App, { target });
void app.begin();
