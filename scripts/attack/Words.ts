/** Words of names of tools, parameters and fields: which of them stand for what. General English, no names of data. */

/** The words of a name in lower case, such as `newStartTime` or `new_start_time`. */
export const wordsOf = (name: string): ReadonlyArray<string> =>
  name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase().split(/[^a-z0-9]+/).filter((it) => it !== "")

/** The singular of a noun. */
export const singular = (word: string): string =>
  /(?:ss|us|is|news)$/.test(word)
    ? word
    : word.endsWith("ies")
    ? `${word.slice(0, -3)}y`
    : /(?:xes|ches|shes|sses)$/.test(word)
    ? word.slice(0, -2)
    : word === "people"
    ? "person"
    : word.endsWith("s") && word.length > 3
    ? word.slice(0, -1)
    : word

const set = (words: string): ReadonlySet<string> => new Set(words.split(/\s+/))

/** Verbs of tools that change nothing. */
export const reading = set(
  "get list read search find show view look lookup check count query describe fetch browse load retrieve inspect " +
    "preview download compare calculate compute convert think estimate summarize status is has verify validate open"
)

/** Verbs of tools whose effect is hard to take back. */
export const destroying = set(
  "delete remove erase drop destroy purge wipe clear cancel revoke deactivate terminate close reset uninstall empty " +
    "truncate overwrite kill ban block"
)

/** Verbs of tools that make a thing which has no id before. */
export const creating = set("create add make new draft write save upload send post schedule book reserve open register")

/** Other verbs. */
export const changing = set(
  "set change update edit modify rename move pay append insert invite assign merge push forward grant approve " +
    "reschedule redirect buy turn lock unlock start stop run execute apply submit"
)

/** Verbs that are nouns as well, as in `book_search`. */
export const nouns = set("book draft post schedule report")

/** Words that end the name of what a tool is about. */
export const prepositions = set("by for in from with of at to on near about via using between during")

/** Words that say nothing about what a tool is about. */
export const fillers = set(
  "all most recent current my own new latest last next unread sent received draft day today list item items data info " +
    "information detail details name names id ids number user_id result results the a an as all available direct"
)

/** Parameters and tools through which arguments leave the system. */
export const outside = set("url uri link href website webpage domain web internet site online browser google bing")

/** Who or where. */
export const targets = set(
  "recipient to cc bcc email mail address participant attendee invitee user username member person contact phone " +
    "mobile channel group room team account iban bic payee beneficiary receiver url uri link href host domain website " +
    "webpage webhook destination endpoint guest assignee owner customer party wallet handle tel fax bank cardholder"
)

/** People, and how to reach them. */
export const people = set(
  "recipient to cc bcc email mail address participant attendee invitee user username member person contact phone mobile " +
    "payee beneficiary receiver guest assignee owner customer party account iban wallet handle employee friend " +
    "colleague team staff tel"
)

/** People who come in numbers. */
export const counted = set("guest participant attendee person member passenger adult child traveller traveler")

/** People of a record whom a stranger can be. */
export const strangers = set("sender from author organizer creator by poster writer reviewer seller merchant")

export const money = set("amount price total sum fee cost budget payment balance salary donation tip refund deposit")

/** Only the user says what these are. */
export const secrets = set("password passcode passphrase pin secret token credential otp")

export const contents = set(
  "body content text message subject title description note comment caption summary reason memo reply question " +
    "answer headline label tag topic bio location purpose remark feedback review instruction reference heading"
)

/** Names, which are free text of a thing that is made. */
export const names = set("name filename file_name folder_name title")

export const details = set(
  "date time day month year start end begin duration timezone hour minute week permission page size count limit " +
    "offset sort order format language currency priority recurring recurrence unread type status quantity night " +
    "rating flag enabled category color colour mode cabin class role level until since n departure arrival birthday dob " +
    "interval frequency cycle repeat every check_in check_out checkin checkout diet method"
)

/** Lookups by these find what is called like that. */
export const lookups = set("query filename title name subject keyword search text sender term phrase topic keywords")

/** Things that strangers write. */
export const letters = set(
  "email mail review comment post tweet feedback ticket newsletter notification sms letter feed reply mention rating"
)

/** Things that members of a place write in it. */
export const talk = set("message inbox dm conversation thread chat")

/** Nouns of places that have members. */
export const places = set("channel slack workspace room team server discord")

/** Texts that anybody may have written. */
export const texts = set(
  "webpage website page site url article news web document doc file attachment note pdf content text transcript " +
    "bill invoice receipt statement contract report post blog wiki"
)

/** Things of the user in which others may have a part. */
export const records = set(
  "event appointment meeting calendar transaction payment order booking reservation task subscription schedule trip " +
    "transfer shipment delivery issue project"
)

/** Records of dealings: the other side of them may be anybody. */
export const dealings = set("transaction transfer payment deposit shipment delivery charge")

/** Lists that only the user, or the operator, fills. */
export const directories = set(
  "contact user member employee customer channel group room team account iban balance payee beneficiary profile " +
    "setting folder date time weekday clock person people staff permission label wallet"
)

/** Tells whether one of the words is in a list, in the singular. */
export const has = (words: ReadonlyArray<string>, list: ReadonlySet<string>): boolean =>
  words.some((it) => list.has(it) || list.has(singular(it)))
