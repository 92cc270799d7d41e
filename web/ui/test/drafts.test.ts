import { describe, expect, it } from 'vitest';
import { Drafts } from '../src/page/drafts.svelte';

/** A request that a test ends. */
function request() {
  let end: (good: boolean) => void = () => undefined;
  const ended = new Promise<boolean>((resolve) => (end = resolve));
  const sent: string[] = [];
  let made: (id: string) => void = () => undefined;
  return {
    sent,
    send: (text: string, onMade: (id: string) => void) => {
      sent.push(text);
      made = onMade;
      return ended;
    },
    make: (id: string) => made(id),
    end: (good: boolean) => end(good),
  };
}

describe('Drafts', () => {
  it('keeps one text per conversation', () => {
    const drafts = new Drafts();
    drafts.write('a', 'one');
    drafts.write('b', 'two');
    expect([drafts.of('a'), drafts.of('b'), drafts.of('')]).toEqual(['one', 'two', '']);
  });

  it('keeps what is written while a message is being sent', async () => {
    const [drafts, post] = [new Drafts(), request()];
    drafts.write('a', ' first \n');
    const sending = drafts.send('a', post.send);
    expect([drafts.of('a'), post.sent]).toEqual(['', ['first']]);
    drafts.write('a', 'second');
    post.end(true);
    await sending;
    expect(drafts.of('a')).toBe('second');
  });

  it('sends one text at a time in each conversation, and says where', async () => {
    const [drafts, post] = [new Drafts(), request()];
    const where = () => ['', 'a', 'new'].filter((thread) => drafts.sends(thread));
    drafts.write('', 'first');
    const sending = drafts.send('', post.send);
    expect(where()).toEqual(['']);
    post.make('new');
    expect(where()).toEqual(['new']);
    post.end(true);
    await sending;
    expect(where()).toEqual([]);
  });

  it('gives back what could not be sent', async () => {
    for (const [meanwhile, want] of [['', 'first'], [' \n', 'first'], ['second', 'first\nsecond']] as const) {
      const [drafts, post] = [new Drafts(), request()];
      drafts.write('a', 'first');
      const sending = drafts.send('a', post.send);
      drafts.write('a', meanwhile);
      post.end(false);
      await sending;
      expect(drafts.of('a')).toBe(want);
    }
  });

  it('leaves the conversation alone that is shown when sending fails', async () => {
    const [drafts, post] = [new Drafts(), request()];
    drafts.write('b', 'a draft');
    drafts.write('a', 'first');
    const sending = drafts.send('a', post.send);
    drafts.write('b', 'a longer draft'); // the user is there now
    post.end(false);
    await sending;
    expect([drafts.of('a'), drafts.of('b')]).toEqual(['first', 'a longer draft']);
  });

  it('goes along to the conversation that was made for the text', async () => {
    for (const good of [true, false]) {
      const [drafts, post] = [new Drafts(), request()];
      drafts.write('', 'first');
      const sending = drafts.send('', post.send);
      drafts.write('', 'second');
      post.make('new');
      expect([drafts.of(''), drafts.of('new')]).toEqual(['', 'second']);
      post.end(good);
      await sending;
      expect([drafts.of(''), drafts.of('new')]).toEqual(['', good ? 'second' : 'first\nsecond']);
    }
  });

  it('has images of its own in each conversation, which go along and come back', async () => {
    const file = (name: string) => new File(['x'], name, { type: 'image/png' });
    for (const good of [true, false]) {
      const drafts = new Drafts();
      const names = (thread: string) => drafts.pictures.of(thread).map(({ name }) => name);
      drafts.pictures.add('', [file('one')]);
      drafts.pictures.add('b', [file('b')]);
      let sent = 0;
      let end: (good: boolean) => void = () => undefined;
      const sending = drafts.send('', (_, made, images) => {
        sent = images.length;
        made('new');
        drafts.pictures.add('new', [file('two')]);
        return new Promise((resolve) => (end = resolve));
      });
      expect([sent, names(''), names('new')]).toEqual([1, [], ['two']]);
      end(good);
      await sending;
      expect([names(''), names('new'), names('b')]).toEqual([[], good ? ['two'] : ['one', 'two'], ['b']]);
    }
  });

  it('takes as many images as the server does', () => {
    const drafts = new Drafts();
    const files = Array.from({ length: 11 }, () => new File(['x'], 'x', { type: 'image/png' }));
    expect(() => drafts.pictures.add('a', files)).toThrow('at most 10 images');
    expect(drafts.pictures.of('a')).toHaveLength(10);
  });

  const stored = () => {
    const kept = new Map<string, string>();
    return { kept, storage: { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) } };
  };

  it('keeps a text over a reload until it is sent', async () => {
    const { storage } = stored();
    const [drafts, post] = [new Drafts(storage), request()];
    drafts.write('', 'first');
    const sending = drafts.send('', post.send);
    drafts.write('', 'second');
    expect(new Drafts(storage).of('')).toBe('first\nsecond');
    post.make('new');
    expect([new Drafts(storage).of(''), new Drafts(storage).of('new')]).toEqual(['', 'first\nsecond']);
    post.end(true);
    await sending;
    expect(new Drafts(storage).of('new')).toBe('second');
  });

  it('keeps texts over a reload, as far as the storage lets it', () => {
    const { kept, storage } = stored();
    const drafts = new Drafts(storage);
    drafts.write('a', 'one');
    drafts.write('b', '');
    expect([new Drafts(storage).of('a'), ...kept.values()]).toEqual(['one', '{"a":"one"}']);
    drafts.forget();
    expect([drafts.of('a'), new Drafts(storage).of('a')]).toEqual(['', '']);
    for (const rubbish of ['{', '[1]', '{"a":7}']) {
      expect(new Drafts({ ...storage, getItem: () => rubbish }).of('a')).toBe('');
    }
    const full = new Drafts({ ...storage, setItem: () => { throw new Error('full'); } });
    full.write('a', 'more');
    expect(full.of('a')).toBe('more');
  });
});

describe('texts that come back', () => {
  it('stand before what is written meanwhile, in order', () => {
    const drafts = new Drafts();
    drafts.write('a', 'a draft');
    drafts.giveBack('a', 'one');
    drafts.write('a', `${drafts.of('a')}, longer`);
    drafts.giveBack('a', 'two');
    expect(drafts.of('a')).toBe('one\ntwo\na draft, longer');
    drafts.write('a', 'all is new');
    drafts.giveBack('a', 'three');
    expect([drafts.of('a'), drafts.of('b')]).toEqual(['three\nall is new', '']);
  });
});
