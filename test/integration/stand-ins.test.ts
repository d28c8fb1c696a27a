import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { openMailer } from '#infra/mail/mailer.ts'
import { prepareRunDirectory, runDirectory } from '#services/cli/run-directory.ts'
import { startStandIns } from '#services/cli/stand-ins.ts'

describe('stand-ins for the outside world', () => {
  const root = mkdtempSync(join(tmpdir(), 'marketlog-stand-ins-'))
  const directory = runDirectory({ MARKETLOG_RUN_DIR: root })
  before(() => prepareRunDirectory(directory))
  const base = 'http://127.0.0.1:8080'
  after(() => rmSync(root, { recursive: true, force: true }))

  it('sign people in and take mails, until they are stopped', async () => {
    const standIns = await startStandIns({}, directory, base)
    const { MARKETLOG_OIDC_URL: issuer, MARKETLOG_SMTP_URL: smtpUrl } = standIns?.variables ?? {}
    const discovery = `${issuer}/.well-known/openid-configuration`
    const issuerThere = async () => ((await (await fetch(discovery)).json()) as { issuer: string }).issuer
    expect(await issuerThere()).to.equal(issuer)
    const mailer = openMailer({ smtpUrl, from: 'a@example.com' })
    expect(await mailer.send({ to: 'b@example.com', subject: 'x', text: 'y' })).to.deep.equal({ kind: 'sent' })
    mailer.close()
    expect(readdirSync(directory.mails)).to.have.length(1)
    await standIns?.stop()
    expect(await issuerThere().catch(() => 'gone')).not.to.equal(issuer)
  })

  it('leave what the environment names as it is', async () => {
    const own = { MARKETLOG_OIDC_URL: 'https://id.example', MARKETLOG_SMTP_URL: 'smtp://mail.example' }
    const standIns = await startStandIns(own, directory, base)
    expect(Object.keys(standIns?.variables ?? {})).to.deep.equal(['MARKETLOG_PLATFORM_OPENID_URL'])
    await standIns?.stop()
  })

  it('are not there where others could reach the platform, or where all is named', async () => {
    expect(await startStandIns({ HOST: '0.0.0.0' }, directory, base)).to.equal(undefined)
    expect(await startStandIns({ BASE_URL: 'https://api.example' }, directory, base)).to.equal(undefined)
    const named = {
      MARKETLOG_OIDC_URL: 'https://id.example',
      MARKETLOG_SMTP_URL: 'smtp://mail.example',
      MARKETLOG_PLATFORM_OPENID_URL: 'https://game.example',
    }
    expect(await startStandIns(named, directory, base)).to.equal(undefined)
  })
})
