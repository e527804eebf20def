import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { isSecretName } from "../../../src/internal/secrets/names.ts"
import * as Redact from "../../../src/internal/secrets/redactor.ts"

const redactor = (options?: {
  readonly declared?: Redact.Declared
  readonly parameters?: Schema.Top
  readonly success?: Schema.Top
}) =>
  Redact.redactor({
    declared: options?.declared ?? [],
    parameters: (options?.parameters ?? Schema.Unknown).ast,
    results: [(options?.success ?? Schema.Unknown).ast]
  })

const plain = redactor()

const secret = "s3cr3t-f00-bar-9000"

/** What is left of arguments, and of a text about them. */
const hides = (value: unknown, of = plain) => {
  const found = of.arguments(value)
  assert.notInclude(JSON.stringify(found.value), secret)
  assert.notInclude(of.scrub(`It said: ${secret}.`, found.secrets), secret)
  return found.value
}

describe("the usual names of secrets", () => {
  it("are known in every spelling, and as a part of a name", () => {
    const names = [
      ..."password Password db_password dbPassword DB-PASSWORD token accessToken access_token X-Api-Key apiKey".split(
        " "
      ),
      ..."apikey APIKEY OPENAI_API_KEY authorization Proxy-Authorization secret client_secret clientSecret".split(" "),
      ..."cookie Set-Cookie private_key privateKey sshPrivateKey credentials aws_secret_access_key".split(" "),
      ..."refreshToken idToken passphrase connectionString otp cvv jwt sessionId mysql_pwd githubToken PGPASSWORD"
        .split(" ")
    ]
    assert.deepStrictEqual(names.filter((it) => !isSecretName(it)), [])
  })

  it("are not those of what is about secrets, or counts them", () => {
    const names = [
      ..."tokens maxTokens max_tokens token_count tokenLimit tokenizer completion_tokens passwordPolicy".split(" "),
      ..."secretName token_type authorization_endpoint author key keys keyboard publicKey primaryKey".split(" "),
      ..."nextToken page_token pageToken password_changed_at compass bypass session author secretary PWD".split(" ")
    ]
    assert.deepStrictEqual(names.filter((it) => isSecretName(it)), [])
  })
})

describe("redaction of a value", () => {
  it.each([
    ["GitHub", `gh${"p_"}${"Ab1".repeat(12)}`],
    ["GitHub, fine-grained", `github_${"pat_"}${"11AB_c".repeat(8)}`],
    ["GitLab", `glpat-${"a1B-".repeat(6)}`],
    ["npm", `npm_${"z9Y".repeat(12)}`],
    ["OpenAI", `sk-proj-${"aB3_".repeat(10)}`],
    ["Anthropic", `sk-ant-api03-${"Qw9-".repeat(10)}`],
    ["Stripe", `sk_${"live"}_${"4eC3".repeat(6)}`],
    ["Slack", `xoxb-${"1234567890-".repeat(2)}abc`],
    ["AWS", `AKIA${"A1B2".repeat(4)}`],
    ["Google", `AIza${"Sy-1_".repeat(7)}`],
    ["a JSON Web Token", `eyJ${"hbGci".repeat(4)}.eyJ${"zdWIi".repeat(5)}.${"Ab-_1".repeat(6)}`]
  ])("takes out a token of %s by its shape, wherever it stands", (_, token) => {
    assert.strictEqual(
      plain.scrub(`It said "${token}", twice: ${token}`, []),
      "It said \"[redacted]\", twice: [redacted]"
    )
    assert.deepStrictEqual(plain.arguments({ note: token }).value, { note: "[redacted]" })
  })

  it("takes nothing for a token that only begins like one", () => {
    const text =
      "sk-learn-and-other-libraries-of-python ghp_short task-sk-1 AKIAabc eyJ.eyJ npm_run xoxo-hugs-and-kisses"
    assert.strictEqual(plain.scrub(text, []), text)
  })

  it("takes out what has the name of a secret, at any depth, and leaves the rest as it is", () => {
    const value = { tokens: 5, maxTokens: 9, list: [{ deep: { "X-Api-Key": secret, url: "https://a.example/b?c=d" } }] }
    assert.deepStrictEqual(hides(value), {
      tokens: 5,
      maxTokens: 9,
      list: [{ deep: { "X-Api-Key": "[redacted]", url: "https://a.example/b?c=d" } }]
    })
  })

  it("takes out the value that stands beside its name, however the two are written", () => {
    for (
      const value of [
        { headers: [["Accept", "text/plain"], ["Authorization", secret]] },
        { env: [{ Name: "DB_PASSWORD", Value: secret }] },
        { content: `os.environ["API_KEY"] = "${secret}"\nprocess.env['API_KEY']='${secret}'\n` },
        { command: `PGPASSWORD=${secret} psql` }
      ]
    ) hides(value)
    const names = { required: ["password", "email"], list: [["token", "a", "b"], ["password", "email"]] }
    assert.strictEqual(plain.arguments(names).value, names)
  })

  it("gives the value itself where there is nothing to take out", () => {
    const value = { a: [1, { b: "text" }], password: null, hasSecret: true }
    assert.strictEqual(plain.arguments(value).value, value)
  })

  it("takes out numbers and whole objects that have such a name", () => {
    assert.deepStrictEqual(hides({ otp: 123456, credentials: { user: "ada", key: secret } }), {
      otp: "[redacted]",
      credentials: "[redacted]"
    })
    assert.include(plain.arguments({ otp: 123456 }).secrets, "123456")
  })

  it("takes out the value beside a name, and the word behind a flag", () => {
    assert.deepStrictEqual(
      hides({
        env: [{ name: "DB_PASSWORD", value: secret }, { name: "HOME", value: "/root" }],
        argv: ["--token", secret]
      }),
      {
        env: [{ name: "DB_PASSWORD", value: "[redacted]" }, { name: "HOME", value: "/root" }],
        argv: ["--token", "[redacted]"]
      }
    )
  })

  it("takes out where it is repeated, in keys, too", () => {
    assert.deepStrictEqual(hides({ note: `use ${secret} for it`, [secret]: 1, password: secret }), {
      note: "use [redacted] for it",
      "[redacted]": 1,
      password: "[redacted]"
    })
  })

  it("looks into texts that are JSON", () => {
    const text = JSON.stringify({ user: "ada", auth: { access_token: secret }, n: 1 })
    assert.deepStrictEqual(hides({ body: text }), {
      body: JSON.stringify({ user: "ada", auth: { access_token: "[redacted]" }, n: 1 })
    })
  })

  it.each([
    [`postgres://app:${secret}@db.example:5432/x`, "postgres://app:[redacted]@db.example:5432/x"],
    [`redis://:${secret}@db`, "redis://:[redacted]@db"],
    [`export API_KEY=${secret}`, "export API_KEY=[redacted]"],
    [
      `curl -H "Authorization: Bearer ${secret}" https://a.example`,
      `curl -H "Authorization: [redacted]" https://a.example`
    ],
    [`mysql -u root --password=${secret} shop`, "mysql -u root --password=[redacted] shop"],
    [`login --token ${secret} --verbose`, "login --token [redacted] --verbose"],
    [`https://a.example/?access_token=${secret}&page=2`, "https://a.example/?access_token=[redacted]&page=2"],
    [`password: ${secret}\nuser: ada`, "password: [redacted]\nuser: ada"],
    [`{"user":"ada","password":"${secret}`, `{"user":"ada","password":"[redacted]`],
    [`it answered {\\"token\\":\\"${secret}\\",\\"n\\":1}`, `it answered {\\"token\\":\\"[redacted]\\",\\"n\\":1}`],
    [`Cookie: a=${secret}; b=2`, "Cookie: [redacted]"]
  ])("finds it in the text %s", (text, left) => {
    assert.strictEqual(hides(text), left)
  })

  it("takes out private keys, and each of their lines", () => {
    const line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    const key = `-----BEGIN RSA PRIVATE KEY-----\n${line}\n-----END RSA PRIVATE KEY-----`
    const { secrets, value } = plain.arguments({ content: `# mine\n${key}\n` })
    assert.deepStrictEqual(value, { content: "# mine\n[redacted]\n" })
    assert.notInclude(plain.scrub(`+++ b/key\n+${line}\n`, secrets), line)
  })

  it.each([
    "const token: string = await next()",
    "The password is required, and the token: too.",
    "curl -H \"Authorization: $HEADER\" --token ${TOKEN} --password <yours>",
    "tokens: 5, max_tokens=1000",
    "at handle (/src/execution/Secrets.ts:230:33)",
    "https://example.com:8080/a@b?c=d",
    "a basic understanding of bearer tokens"
  ])("leaves alone what is no secret: %s", (text) => {
    assert.deepStrictEqual(plain.arguments(text), { value: text, secrets: [] })
  })

  it("gives a mark for what cannot be looked at", () => {
    const odd = {
      get name(): string {
        throw new Error("no")
      }
    }
    assert.strictEqual(plain.arguments({ odd }).value, "[redacted]")
    const circle: { self?: unknown } = {}
    circle.self = circle
    assert.deepStrictEqual(plain.arguments(circle).value, { self: "[redacted]" })
  })

  it("keeps keys such as __proto__", () => {
    const value: unknown = JSON.parse(`{"__proto__":{"token":"${secret}"},"a":1}`)
    assert.strictEqual(JSON.stringify(hides(value)), `{"__proto__":{"token":"[redacted]"},"a":1}`)
  })
})

describe("redaction of what a tool declares", () => {
  it("takes out what is at its paths, in arguments and results", () => {
    const of = redactor({ declared: ["card.number", "rows[*].pin", "/a.b"] })
    assert.deepStrictEqual(
      of.output({ card: { number: 4111, name: "Ada" }, rows: [{ pin: "77" }, { pin: secret }], "a.b": [secret] }),
      {
        value: {
          card: { number: "[redacted]", name: "Ada" },
          rows: [{ pin: "[redacted]" }, { pin: "[redacted]" }],
          "a.b": "[redacted]"
        },
        secrets: ["4111", "77", secret]
      }
    )
  })

  it("takes out what a function leaves out, and everything where that dies", () => {
    const of = redactor({
      declared: (value, side) => {
        if (side === "output") throw new Error("no")
        return { ...value as object, who: "…" }
      }
    })
    const { secrets, value } = of.arguments({ who: secret, n: 1 })
    assert.deepStrictEqual(value, { who: "…", n: 1 })
    assert.deepStrictEqual(secrets, [secret])
    assert.deepStrictEqual(of.output({ who: secret }), { value: "[redacted]", secrets: [secret] })
  })

  class Account
    extends Schema.Class<Account>("Account")({ id: Schema.String, key: Schema.RedactedFromValue(Schema.String) })
  {}

  interface Tree {
    readonly mine: string
    readonly children: ReadonlyArray<Tree>
  }
  const Tree = Schema.Struct({
    mine: Schema.String,
    children: Schema.Array(Schema.Struct({
      hidden: Schema.RedactedFromValue(Schema.String),
      below: Schema.suspend((): Schema.Codec<Tree> => Tree as unknown as Schema.Codec<Tree>)
    }))
  })

  it.each([
    ["a field", Schema.Struct({ x: Schema.RedactedFromValue(Schema.String) }), { x: secret }, { x: "[redacted]" }],
    ["an optional one", Schema.Struct({ x: Schema.optionalKey(Schema.RedactedFromValue(Schema.String)) }), {
      x: secret
    }, {
      x: "[redacted]"
    }],
    ["a list", Schema.Array(Schema.RedactedFromValue(Schema.String)), [secret], ["[redacted]"]],
    ["a record", Schema.Record(Schema.String, Schema.RedactedFromValue(Schema.String)), { any: secret }, {
      any: "[redacted]"
    }],
    [
      "a union",
      Schema.Union([
        Schema.Struct({ a: Schema.String }),
        Schema.Struct({ a: Schema.String, b: Schema.RedactedFromValue(Schema.String) })
      ]),
      { a: "a", b: secret },
      { a: "a", b: "[redacted]" }
    ],
    ["a class", Account, { id: "1", key: secret }, { id: "1", key: "[redacted]" }],
    [
      "a transformation",
      Schema.fromJsonString(Schema.Struct({ x: Schema.RedactedFromValue(Schema.String) })),
      JSON.stringify({ x: secret }),
      "[redacted]"
    ],
    ["a recursive schema", Tree, {
      mine: "a",
      children: [{ hidden: "h", below: { mine: "b", children: [{ hidden: secret }] } }]
    }, {
      mine: "a",
      children: [{ hidden: "[redacted]", below: { mine: "b", children: [{ hidden: "[redacted]" }] } }]
    }]
  ])("takes out what the schema of %s says is redacted", (_, schema, value, left) => {
    const of = redactor({ parameters: schema })
    assert.deepStrictEqual(hides(value, of), left)
    assert.deepStrictEqual(hides(value, of.declared), left)
  })

  it("takes out redacted values as such", () => {
    assert.deepStrictEqual(hides({ deep: [Redacted.make(secret)] }), { deep: ["[redacted]"] })
  })

  it("takes out nothing else where only that is wanted", () => {
    const of = redactor({ declared: ["pin"] }).declared!
    const { secrets, value } = of.arguments({ pin: "1234", password: "not declared" })
    assert.deepStrictEqual(value, { pin: "[redacted]", password: "not declared" })
    assert.strictEqual(of.scrub("pin 1234, password=abc123", secrets), "pin [redacted], password=abc123")
    assert.isUndefined(plain.declared)
  })

  it("knows which paths a tool cannot have", () => {
    const sources = (declared: Redact.Declared) => ({
      declared,
      parameters:
        Schema.Struct({ a: Schema.Struct({ b: Schema.String }), all: Schema.Record(Schema.String, Schema.String) }).ast,
      results: [Schema.Array(Schema.Struct({ c: Schema.String })).ast]
    })
    assert.deepStrictEqual(
      Redact.strayPaths(
        sources(["a.b", "a.*", "*.b", "all.any", "[0].c", "*.c", "[*].c", "a.c", "b", "", "..", "[0].a"])
      ),
      ["a.c", "b", "", "..", "[0].a"]
    )
  })
})

describe("redaction of a text", () => {
  it("takes out secrets as JSON, JSON in JSON and URLs write them", () => {
    const odd = `qu"ote\\ & ${secret}`
    const { secrets } = plain.arguments({ password: odd })
    for (
      const text of [odd, JSON.stringify({ odd }), JSON.stringify(JSON.stringify({ odd })), encodeURIComponent(odd)]
    ) {
      assert.notInclude(plain.scrub(`> ${text} <`, secrets), "s3cr3t")
    }
  })

  it("takes out what is left of one where the text was cut", () => {
    const long = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
    const { secrets } = plain.arguments({ token: long })
    assert.strictEqual(plain.scrub(`a ${long.slice(0, 20)}… b`, secrets), "a [redacted]… b")
    assert.strictEqual(plain.scrub(`a …${long.slice(-20)} b`, secrets), "a …[redacted] b")
  })

  it("takes out short ones only where they stand alone", () => {
    const { secrets } = redactor({ declared: ["pin"] }).arguments({ pin: "77" })
    assert.strictEqual(plain.scrub("pin 77, port 7700, 177", secrets), "pin [redacted], port 7700, 177")
  })

  it("takes out the credentials behind the scheme of a header", () => {
    const { secrets } = plain.arguments({ headers: { Authorization: "Bearer abc123" } })
    assert.strictEqual(plain.scrub("the key abc123 is unknown", secrets), "the key [redacted] is unknown")
  })

  it("takes time in line with the length of the text", () => {
    for (
      const text of [
        "a".repeat(400_000),
        "a=".repeat(200_000),
        "\"a\":\"".repeat(80_000),
        "a://".repeat(80_000),
        "-".repeat(400_000)
      ]
    ) {
      assert.isString(plain.scrub(text, [secret]))
    }
  })
})
