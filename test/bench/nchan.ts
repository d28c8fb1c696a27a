/**
 * Finds nginx and its module nchan, and installs both where that is allowed (infra/stack/system-packages.ts).
 *
 * Without them the bench `feed` fails by name: deliveries beside nothing are no comparison.
 */
import { existsSync } from 'node:fs'
import type { ToolContext } from '#infra/stack/native/native-server.ts'
import { installPackages } from '#infra/stack/system-packages.ts'

/** Paths of the server and of its module. */
export interface NchanPrograms {
  program: string
  module: string
}

const PACKAGES = ['nginx', 'libnginx-mod-nchan']
const PROGRAMS = ['/usr/sbin/nginx', '/usr/local/sbin/nginx', '/usr/bin/nginx']
const MODULES = ['/usr/lib/nginx/modules/ngx_nchan_module.so', '/usr/lib64/nginx/modules/ngx_nchan_module.so']

/** The programs; throws a named error where they are not there and may not be installed. */
export async function provideNchan(context: ToolContext): Promise<NchanPrograms> {
  const find = (): NchanPrograms | undefined => {
    const [program, module] = [PROGRAMS.find(existsSync), MODULES.find(existsSync)]
    return program && module ? { program, module } : undefined
  }
  return find() ?? installPackages(context, PACKAGES, 'feed: nchan is missing: nginx and its module are needed', find)
}
