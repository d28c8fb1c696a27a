/** What the first role that asks for it opens, and all roles of a process share. */
export function openShared<T extends { close(): Promise<void> }>(
  open: () => Promise<T>,
): { get(): Promise<T>; close(): Promise<void> } {
  let opened: Promise<T> | undefined
  return {
    get() {
      opened ??= open()
      return opened
    },
    close: async () => (await opened?.catch(() => undefined))?.close(),
  }
}
