/** The item that was open last in this tab, for the shortcut that leads back. */
const STORED = 'marketlog-item'

export const noteItem = (itemId: string): void => sessionStorage.setItem(STORED, itemId)

export const lastItem = (): string | undefined => sessionStorage.getItem(STORED) ?? undefined
