/**
 * Checks package-lock.json: of every package it has the sum of its archive, a licence that is allowed, and whether it may run a script.
 *
 * npm verifies an archive by the lock's sum alone, so a package without one would be taken as it comes. Scripts of packages
 * never run (.npmrc) but those that `allowScripts` of package.json names, which services/cli/install.sh runs.
 */

/** Packages by the folder that each is installed in; the root's is the empty one. */
export interface PackageLock {
  packages: Record<
    string,
    {
      integrity?: string
      license?: string
      hasInstallScript?: boolean
      optional?: boolean
      link?: boolean
      dev?: boolean
    }
  >
}

const ALLOWED = new Set([
  ...['MIT', 'MIT-0', 'ISC', '0BSD', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0', 'BlueOak-1.0.0'],
  ...['PSF-2.0', 'Python-2.0', 'Unlicense', 'CC0-1.0'],
])

/** Of tools that are neither changed nor shipped: what such a licence asks for is asked of those who do. */
const ALLOWED_IN_TOOLS = new Set(['MPL-2.0'])

/** Packages whose entry names no licence: what their own LICENSE file, `licenses` member or source says. */
const READ_BY_HAND: Record<string, string> = {
  '@fawazahmed0/currency-api': 'CC0-1.0',
  '@kafkajs/confluent-schema-registry': 'MIT',
  buildcheck: 'MIT',
  busboy: 'MIT',
  'cpu-features': 'MIT',
  ssh2: 'MIT',
  streamsearch: 'MIT',
}

/**
 * Optional packages of other machines, whose archives the registry at hand did not have: no sum could be read. A release
 * for one of these machines takes it from a registry that has it.
 */
const OF_OTHER_MACHINES = /^(@biomejs\/cli|@chdb\/lib|@swc\/core)-(?!linux-x64(-gnu)?$)/

/** Every broken rule of the lock file and of `allowScripts`. */
export function checkPackages(lock: PackageLock, allowScripts: Readonly<Record<string, boolean>>): string[] {
  const entries = Object.entries(lock.packages).filter(([folder]) => folder !== '')
  return entries.flatMap(([folder, { integrity, license, hasInstallScript, optional, link, dev }]) => {
    const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)
    const isRead = !(optional && integrity === undefined && OF_OTHER_MACHINES.test(name))
    const terms = license ?? READ_BY_HAND[name]
    return [
      ...(isRead && (!integrity?.startsWith('sha512-') || link)
        ? [`${name} has no SHA-512; remove its entry and those that want it, and run npm install --package-lock-only`]
        : []),
      ...(isRead && (terms === undefined || !(isAllowed(terms) || (dev && ALLOWED_IN_TOOLS.has(terms))))
        ? [`${name} has the licence ${terms ?? 'of no name'}, which infra/checks/packages.ts does not allow`]
        : []),
      ...(hasInstallScript && !(name in allowScripts)
        ? [`${name} has an install script; say in allowScripts of package.json whether it may run`]
        : []),
    ]
  })
}

/** An SPDX expression of AND and OR without nesting, as npm's manifests have it. */
const isAllowed = (expression: string): boolean =>
  expression
    .replace(/[()]/g, '')
    .split(' OR ')
    .some(choice => choice.split(' AND ').every(term => ALLOWED.has(term.trim())))
