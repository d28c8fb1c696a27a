import { expect } from 'chai'
import { openMailer } from '#infra/mail/mailer.ts'
import { type Mailbox, openMailbox } from '#test/fixtures/mailbox.ts'
import { openReceiver, silence } from '#test/fixtures/webhook-receiver.ts'
import { openWebhookScenario, type TestAccount, type WebhookScenario } from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { layWire } from '#test/harness/wire-proxy.ts'

const HOSTILE_NAME = '★ <script>alert(1)</script> & "Knife"'
const FROM = 'marketlog alerts <alerts@market.example>'

interface MailRow {
  status: string
  attempt_count: number
  error: string | null
  next_attempt_at: string | null
}

describe('mails of alert events', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let mailbox: Mailbox
  let account: TestAccount
  const address = 'trader@example.com'
  before('roles and a mail server', async () => {
    mailbox = await openMailbox()
    scenario = await openWebhookScenario(platform, { config: { smtpUrl: mailbox.url, mailFrom: FROM } })
    account = await scenario.account({ tier: 'free', email: address })
  })
  after('end of them', async () => {
    await scenario.close()
    await mailbox.close()
  })

  const rowsOf = (eventId: string) =>
    scenario.database.rows<MailRow>(
      'SELECT status, attempt_count, error, next_attempt_at FROM email_deliveries WHERE event_id = $1',
      [eventId],
    )
  const settled = (eventId: string) =>
    eventually(async () => (await rowsOf(eventId)).find(({ status }) => status !== 'pending'), 'the mail')

  it('arrive as HTML and text, with the item as text, and are recorded as delivered', async () => {
    const eventId = await scenario.event(account, { market_hash_name: HOSTILE_NAME, phase: 'Ruby' })
    const mail = await mailbox.mailTo(address)
    const row = { status: 'succeeded', attempt_count: 1, error: null, next_attempt_at: null }
    expect(await settled(eventId)).to.deep.equal(row)
    expect(mail.from).to.deep.include({ name: 'marketlog alerts', address: 'alerts@market.example' })
    expect(mail.to?.map(one => one.address)).to.deep.equal([address])
    expect(mail.subject).to.equal(`Price alert: ${HOSTILE_NAME} (Ruby)`)
    expect(mail.html).to.include('&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;Knife&quot;')
    expect(mail.text).to.include(HOSTILE_NAME)
    expect(mail.messageId).to.include(eventId)
  })

  it('are one per event, also when its fan-out runs again', async () => {
    const before = mailbox.mails.length
    const eventId = await scenario.event(account)
    await settled(eventId)
    await scenario.database.rows(
      `SELECT graphile_worker.add_job('fan-out-alert-event', json_build_object('event_ids', json_build_array($1::text)))`,
      [eventId],
    )
    const jobs = () => scenario.database.rows('SELECT 1 FROM graphile_worker.jobs')
    await eventually(async () => (await jobs()).length === 0, 'the second run')
    expect(await rowsOf(eventId)).to.have.length(1)
    expect(mailbox.mails.length).to.equal(before + 1)
  })

  it('end by the link of List-Unsubscribe: a GET only asks, a one-click POST acts, and both may be repeated', async () => {
    const mine = await scenario.account({ email: 'leaving@example.com' })
    await scenario.event(mine)
    const mail = await mailbox.mailTo('leaving@example.com')
    const header = (name: string) => mail.headers.find(({ key }) => key === name)?.value ?? ''
    expect(header('list-unsubscribe-post')).to.equal('List-Unsubscribe=One-Click')
    const link = /^<(.+)>$/.exec(header('list-unsubscribe'))?.[1] ?? ''
    expect(link).to.match(/^http:\/\/127\.0\.0\.1:\d+\/v1\/unsubscribe\?token=/)
    expect(mail.text).to.include(link)
    for (let n = 0; n < 2; n++) {
      const page = await fetch(link)
      expect([page.status, page.headers.get('content-type')]).to.deep.equal([200, 'text/html; charset=utf-8'])
      expect(await page.text()).to.include('method="post"')
    }
    expect(await mailsOff(mine)).to.equal(false)
    const body = 'List-Unsubscribe=One-Click'
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    for (let n = 0; n < 2; n++) {
      const answer = await fetch(link, { method: 'POST', headers, body })
      expect(answer.status).to.equal(200)
      await answer.arrayBuffer()
      expect(await mailsOff(mine)).to.equal(true)
    }
    await scenario.webhook(mine, scenario.receivers[0] as (typeof scenario.receivers)[number])
    const eventId = await scenario.event(mine)
    await eventually(() => scenario.receivers[0]?.received.length === 1, 'the webhook of the same event')
    expect(await rowsOf(eventId)).to.deep.equal([])
    await (await fetch(`${link}&set=on`, { method: 'POST' })).arrayBuffer()
    expect(await mailsOff(mine)).to.equal(false)
  })

  it('of a changed link reach no account', async () => {
    for (const method of ['GET', 'POST']) {
      const answer = await fetch(`${scenario.roles.baseUrl}/v1/unsubscribe?token=${'A'.repeat(43)}`, { method })
      expect([answer.status, ((await answer.json()) as { code: string }).code]).to.deep.equal([404, 'NOT_FOUND'])
    }
  })

  const mailsOff = async ({ id }: TestAccount): Promise<boolean> => {
    const off = 'SELECT 1 FROM accounts WHERE id = $1 AND alert_emails_off_at IS NOT NULL'
    return (await scenario.database.rows(off, [id])).length === 1
  }

  it('are for verified addresses alone', async () => {
    const unverified = await scenario.account({ email: 'unverified@example.com' })
    await scenario.database.rows('UPDATE accounts SET email_verified_at = NULL WHERE id = $1', [unverified.id])
    const without = await scenario.account({ email: null })
    const ids = [await scenario.event(unverified), await scenario.event(without)]
    await settled(await scenario.event(account))
    for (const id of ids) expect(await rowsOf(id)).to.deep.equal([])
  })
})

describe('mails without a server that takes them', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  before('roles without a mail server', async () => {
    scenario = await openWebhookScenario(platform)
  })
  after('end of them', () => scenario.close())

  it('are recorded as failed with a reason that says what to set, and webhooks go on', async () => {
    const account = await scenario.account({ email: 'nobody@example.com' })
    await scenario.webhook(account, scenario.receivers[0] as (typeof scenario.receivers)[number])
    const eventId = await scenario.event(account)
    const failed = `SELECT * FROM email_deliveries WHERE event_id = $1 AND status = 'failed'`
    const find = async () => (await scenario.database.rows<MailRow>(failed, [eventId]))[0]
    const row = await eventually(find, 'the recorded failure')
    expect(row.error).to.include('MARKETLOG_SMTP_URL')
    await eventually(() => scenario.receivers[0]?.received.length === 1, 'the webhook')
  })

  it('are tried again when the server is away or silent, and never when it refuses the address', async () => {
    const mailbox = await openMailbox()
    const wire = await layWire(mailbox.url)
    wire.cut()
    const mail = { to: 'a@example.com', subject: 's', text: 't' }
    const away = openMailer({ smtpUrl: wire.url, from: FROM })
    const error = 'The mail server could not be reached, or the connection to it broke.'
    expect(await away.send(mail)).to.deep.equal({ kind: 'failed', isFinal: false, error })
    const mailer = openMailer({ smtpUrl: mailbox.url, from: FROM })
    expect(await mailer.send({ ...mail, to: 'no address' })).to.include({ kind: 'failed', isFinal: true })
    expect(await mailer.send(mail)).to.deep.equal({ kind: 'sent' })
    const silent = await openReceiver()
    silent.answerWith(silence)
    const stuck = openMailer({ smtpUrl: silent.url.replace('http:', 'smtp:'), from: FROM })
    expect(await stuck.send(mail)).to.include({ kind: 'failed', isFinal: false })
    for (const one of [away, mailer, stuck]) one.close()
    await silent.close()
    await wire.close()
    await mailbox.close()
    expect(() => openMailer({ smtpUrl: 'http://mail.example', from: FROM })).to.throw('MARKETLOG_SMTP_URL')
  })
})
