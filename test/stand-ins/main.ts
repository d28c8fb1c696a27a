/**
 * What a platform on one machine has instead of the outside world: an OpenID provider, a mail server, the game's sign-in.
 *
 * A child of `make up` and `make demo`: `main.ts <public root of the API> <folder for mails>`. Reports its addresses to
 * its parent and ends with it. Listens on loopback alone, and is none of the platform's own code: it needs
 * development dependencies, and a production installation has neither them nor this.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { STAND_IN } from '#services/inventory/main.ts'
import { openTestIdentityProvider } from '#test/fixtures/identity-provider.ts'
import { openMailbox } from '#test/fixtures/mailbox.ts'
import { openTestPlatform } from '#test/fixtures/platform-provider.ts'

const [baseUrl = '', mails = ''] = process.argv.slice(2)
mkdirSync(mails, { recursive: true })
let mailCount = 0
const keep = (raw: Buffer): void => {
  mailCount += 1
  const name = `${new Date().toISOString().replaceAll(':', '-')}-${mailCount}.eml`
  writeFileSync(join(mails, name), raw, { mode: 0o600 })
}
const provider = await openTestIdentityProvider({ emailInToken: true, admitsEverybody: true })
provider.register(`${baseUrl}/v1/account/callback`)
const [mailbox, game] = [await openMailbox(keep), await openTestPlatform(STAND_IN.full)]

process.once('disconnect', () => process.exit(0))
process.send?.({
  MARKETLOG_OIDC_URL: provider.url,
  MARKETLOG_OIDC_CLIENT_ID: provider.clientId,
  MARKETLOG_OIDC_CLIENT_SECRET: provider.clientSecret,
  MARKETLOG_PLATFORM_OPENID_URL: game.endpoint,
  MARKETLOG_SMTP_URL: mailbox.url,
})
