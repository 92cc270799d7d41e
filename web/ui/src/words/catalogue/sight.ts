import { both } from './both';

export const words = {
  title: both('The assistant would like to look', 'Der Assistent möchte hinsehen'),
  text: both('Until this call ends, it takes a picture when you tell it to look or when it has to see something. What may it see?',
    'Bis dieses Gespräch endet, macht er ein Bild, wenn Sie ihn dazu auffordern oder wenn er etwas sehen muss. Was darf er sehen?'),
  subjects: {
    camera: both('Camera', 'Kamera'),
    screen: both('A screen', 'Einen Bildschirm'),
  } as Record<string, string>,
  refuse: both('Not in this call', 'Nicht in diesem Gespräch'),
  may: {
    camera: both('The assistant may look through the camera.', 'Der Assistent darf durch die Kamera sehen.'),
    screen: both('The assistant may look at the shared screen.', 'Der Assistent darf den geteilten Bildschirm sehen.'),
  } as Record<string, string>,
  stop: both('Stop', 'Beenden'),
  show: both('Send a picture of the screen', 'Ein Bild vom Bildschirm senden'),
  failed: both((subject: string, why: string) => `The ${subject} cannot be looked at: ${why.replace(/\.$/, '')}.`,
    (subject, why) => `${subject === 'camera' ? 'Die Kamera' : 'Der Bildschirm'} kann nicht gesehen werden: ${why.replace(/\.$/, '')}.`),
};
