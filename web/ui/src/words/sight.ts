import { language } from './language.svelte';

// The words of what the assistant may see in a call, which are loaded with it.

export const en = {
  title: 'The assistant would like to look',
  text: 'Until this call ends, it takes a picture when you tell it to look or when it has to see something. What may it see?',
  subjects: { camera: 'Camera', screen: 'A screen' } as Record<string, string>,
  refuse: 'Not in this call',
  may: { camera: 'The assistant may look through the camera.', screen: 'The assistant may look at the shared screen.' } as Record<string, string>,
  stop: 'Stop',
  show: 'Send a picture of the screen',
  failed: (subject: string, why: string) => `The ${subject} cannot be looked at: ${why.replace(/\.$/, '')}.`,
};

export const de: typeof en = {
  title: 'Der Assistent möchte hinsehen',
  text: 'Bis dieses Gespräch endet, macht er ein Bild, wenn Sie ihn dazu auffordern oder wenn er etwas sehen muss. Was darf er sehen?',
  subjects: { camera: 'Kamera', screen: 'Einen Bildschirm' },
  refuse: 'Nicht in diesem Gespräch',
  may: { camera: 'Der Assistent darf durch die Kamera sehen.', screen: 'Der Assistent darf den geteilten Bildschirm sehen.' },
  stop: 'Beenden',
  show: 'Ein Bild vom Bildschirm senden',
  failed: (subject, why) => `${subject === 'camera' ? 'Die Kamera' : 'Der Bildschirm'} kann nicht gesehen werden: ${why.replace(/\.$/, '')}.`,
};

export const w = (): typeof en => (language.current === 'de' ? de : en);
