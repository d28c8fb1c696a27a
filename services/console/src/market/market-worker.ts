/** The worker's entry: shared by all tabs where the browser has shared workers, else one for each. */
import { openPages, type Port } from './pages.ts'

interface SharedScope {
  onconnect: ((event: { ports: readonly Port[] }) => void) | null
}

const pages = openPages()
if ('onconnect' in globalThis) {
  const scope = globalThis as unknown as SharedScope
  scope.onconnect = ({ ports }) => {
    for (const port of ports) pages.add(port)
  }
} else pages.add(globalThis as unknown as Port)
