export type Theme = 'light' | 'dark';

const key = 'voicebridge-theme';

/** The page's colours: the system's unless the user (or the model) chose. */
export class ThemeChoice {
  #system = matchMedia('(prefers-color-scheme: dark)');
  current = $state<Theme>('light');

  constructor() {
    this.current = this.#chosen() ?? this.#systemTheme();
    this.#system.addEventListener('change', () => {
      if (!this.#chosen()) this.current = this.#systemTheme();
    });
  }

  set(theme: Theme): void {
    this.current = theme;
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem(key, theme);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }

  /** Whether the user chose; otherwise the system does. */
  get chosen(): boolean {
    return this.#chosen() !== undefined;
  }

  toggle(): void {
    this.set(this.current === 'dark' ? 'light' : 'dark');
  }

  #chosen(): Theme | undefined {
    const theme = document.documentElement.dataset.theme;
    return theme === 'light' || theme === 'dark' ? theme : undefined;
  }

  #systemTheme(): Theme {
    return this.#system.matches ? 'dark' : 'light';
  }
}
