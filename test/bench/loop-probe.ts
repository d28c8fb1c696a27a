/**
 * Loaded into a role's process by `node --import`: says to each that connects for how long, in milliseconds, its event loop was held at
 * most since the last. That is the thread's own processor time between two looks, a millisecond apart: what else runs on the machine
 * would count in the time of the clock. The product itself is as it is.
 */
import { createServer } from 'node:net'

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}
let [longest, before] = [0, cpuMs()]
setInterval(() => {
  const now = cpuMs()
  longest = Math.max(longest, now - before)
  before = now
}, 1).unref()
createServer(socket => {
  socket.end(String(longest))
  longest = 0
})
  .listen(process.env.LOOP_PROBE)
  .unref()
