/**
 * What package-lock.json must say of every package: the sum of its archive, a licence that is allowed, and whether it may run a script.
 *
 * npm verifies an archive by the lock's sum alone, so a package without one would be taken as it comes. Scripts of packages
 * never run at an installation but those that `allowScripts` of package.json names, which services/cli/install.sh runs.
 */
import type { Finding } from './finding.ts'

/** What the lock file holds of a package, by the folder that it is installed in; the root's is the empty one. */
export interface PackageLock {
  packages: Record<
    string,
    {
      version?: string
      integrity?: string
      license?: string
      hasInstallScript?: boolean
      optional?: boolean
      link?: boolean
    }
  >
}

/** Files that install packages, by path. */
type Installers = Readonly<Record<string, string>>

const ALLOWED = new Set([
  ...['MIT', 'MIT-0', 'ISC', '0BSD', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0', 'BlueOak-1.0.0'],
  ...['PSF-2.0', 'Python-2.0', 'Unlicense', 'CC0-1.0'],
])

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
 * Optional packages of other machines whose archive the registry at hand did not have, by name and version: no sum could be read.
 * A release for one of these machines takes it from a registry that has it, and removes the line.
 */
const UNREAD = new Set([
  '@biomejs/cli-android-arm64@2.6.8',
  '@biomejs/cli-android-x64@2.6.8',
  '@biomejs/cli-darwin-arm64@2.6.8',
  '@biomejs/cli-darwin-x64@2.6.8',
  '@biomejs/cli-linux-arm64-musl@2.6.8',
  '@biomejs/cli-linux-x64-musl@2.6.8',
  '@biomejs/cli-win32-arm64@2.6.8',
  '@biomejs/cli-win32-x64@2.6.8',
  '@chdb/lib-darwin-arm64@26.7.3-stable.1',
  '@chdb/lib-darwin-x64@26.7.3-stable.1',
  '@chdb/lib-linux-arm64-gnu@26.7.3-stable.1',
  '@swc/core-darwin-arm64@1.16.22',
  '@swc/core-darwin-x64@1.16.22',
  '@swc/core-linux-arm-gnueabihf@1.16.22',
  '@swc/core-linux-ppc64-gnu@1.16.22',
  '@swc/core-linux-s390x-gnu@1.16.22',
  '@swc/core-win32-arm64-msvc@1.16.22',
  '@swc/core-win32-ia32-msvc@1.16.22',
  '@swc/core-win32-x64-msvc@1.16.22',
])

/** Every broken rule of the lock file, of `allowScripts` and of what installs packages. */
export function checkPackages(
  lock: PackageLock,
  allowScripts: Readonly<Record<string, boolean>>,
  installers: Installers,
): Finding[] {
  const entries = Object.entries(lock.packages).filter(([folder]) => folder !== '')
  const found = entries.flatMap(([folder, { version, integrity, license, hasInstallScript, optional, link }]) => {
    const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)
    const isUnread = optional === true && UNREAD.has(`${name}@${version}`)
    const terms = license ?? READ_BY_HAND[name]
    return [
      !isUnread && (!/^sha512-/.test(integrity ?? '') || link)
        ? `${name} has no SHA-512; remove its entry and those that want it, and run npm install --package-lock-only`
        : undefined,
      !isUnread && (terms === undefined || !isAllowed(terms))
        ? `${name} has the licence ${terms ?? 'of no name'}, which infra/checks/packages.ts does not allow`
        : undefined,
      hasInstallScript && !(name in allowScripts)
        ? `${name} has an install script; say in allowScripts of package.json whether it may run`
        : undefined,
    ].filter(detail => detail !== undefined)
  })
  return [
    ...found.map(detail => ({ file: 'package-lock.json', rule: 'packages', detail })),
    ...Object.entries(installers).flatMap(([file, text]) => installerFindings(file, text)),
  ]
}

function installerFindings(file: string, text: string): Finding[] {
  return text.split('\n').flatMap((line, index) => {
    const isInstall = /\bnpm (ci|install)\b/.test(line) && !/^\s*(#|echo\b)/.test(line)
    if (!isInstall || line.includes('--ignore-scripts')) return []
    return [
      { file, line: index + 1, rule: 'packages', detail: 'npm runs scripts of packages without --ignore-scripts' },
    ]
  })
}

/** An SPDX expression of AND and OR without nesting, as npm's manifests have it. */
const isAllowed = (expression: string): boolean =>
  expression
    .replace(/[()]/g, '')
    .split(' OR ')
    .some(choice => choice.split(' AND ').every(term => ALLOWED.has(term.trim())))
