/** Light, dark, or as the system has it; kept in this browser, since it says nothing of anybody. */
import { useState } from 'react'

const STORED = 'marketlog-theme'
const THEMES = ['system', 'light', 'dark'] as const

type Theme = (typeof THEMES)[number]

const storedTheme = (): Theme => THEMES.find(theme => theme === localStorage.getItem(STORED)) ?? 'system'

export function applyTheme(theme: Theme = storedTheme()): void {
  document.documentElement.dataset.theme = theme
}

export function ThemeChoice() {
  const [theme, setTheme] = useState(storedTheme)
  const choose = (chosen: Theme): void => {
    if (chosen === 'system') localStorage.removeItem(STORED)
    else localStorage.setItem(STORED, chosen)
    applyTheme(chosen)
    setTheme(chosen)
    // Charts are drawn in colours that they have asked for once.
    dispatchEvent(new Event(THEME_EVENT))
  }
  return (
    <label>
      <span className="unseen">Theme</span>
      <select value={theme} onChange={({ target }) => choose(target.value as Theme)}>
        {THEMES.map(one => (
          <option key={one} value={one}>
            {one[0]?.toUpperCase() + one.slice(1)}
          </option>
        ))}
      </select>
    </label>
  )
}

export const THEME_EVENT = 'marketlog-theme'
