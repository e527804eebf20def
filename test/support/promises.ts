/** The promises that tests check which are data: a file or a published suite cannot carry tags. */

type Promises = Readonly<Record<string, Array<string>>>

/** Scenarios, by file. */
export const scenarios: Promises = {
  "approvals": ["AP1"],
  "approvals-upfront": ["AP12"],
  "bad-calls": ["G7"],
  "cancel-call": ["X4"],
  "classes": ["C1"],
  "continuation": ["R7"],
  "continuation-heartbeats": ["R7"],
  "defects": ["A5"],
  "heartbeat": ["R9"],
  "interrupted-caller": ["X1"],
  "join": ["D8"],
  "join-own-limit": ["D8"],
  "late-commits": ["T6"],
  "limits": ["T2"],
  "parallel-mode": ["C8"],
  "permission-expires-while-waiting": ["AP9"],
  "permission-given-back": ["G7"],
  "permission-no-approver": ["AP1"],
  "permission-targets": ["AP8"],
  "principals": ["S5"],
  "read-again-after-a-write": ["D4"],
  "replay-gates": ["D7"],
  "resource-keys": ["C6"],
  "retries-of-the-model": ["D5"],
  "rule-awaited-duplicates": ["D6"],
  "rule-children": ["ChildTools"],
  "rule-conditional": ["Conditional"],
  "rule-consent": ["RequiresConsent"],
  "rule-following": ["RequiresFollowingTools"],
  "rule-gates-in-order": ["G1"],
  "rule-operations": ["AllowedOperations"],
  "rule-order-in-parallel": ["R3"],
  "rule-parents": ["ParentTools"],
  "rule-required-when": ["RequiredBeforeExit"],
  "scope-dedupe": ["R10"],
  "scope-limits": ["R10"],
  "scope-session-failures": ["R12"],
  "scope-session-neighbours": ["R10"],
  "scope-session-order": ["R11"],
  "scope-session-side-by-side": ["R14"],
  "sequential-mode": ["C8"],
  "stop-at-a-refusal": ["C9"],
  "stop-not-at-a-failure": ["C9"]
}

/** Checks of the published contract suites, by name. */
export const checks: Promises = {
  "corrects what was presumed at the end of a lease once it is known what had started": ["ST5"],
  "counts rest and window of what was about to start from there, or from when its start is known": ["ST5"],
  "counts the end of a call that is on record, though its lease be over": ["ST5"],
  "counts them in the same way once a lease is over": ["ST5"],
  "forgets an idle conversation in time, and not before": ["R15"],
  "frees what never started once its lease is over, and nothing said of it counts any more": ["ST5"],
  "gives a resumed call what it had reserved before it was on record, and nobody else": ["ST5"],
  "keeps spent what had started when its lease was over": ["ST5"],
  "lets a tool rest from the end of its call, to the millisecond": ["Cooldown"],
  "lets the first tool of a group win for its batch, and repeat": ["ExclusiveGroup"],
  "refuses no resumed call for its own end, which is not on record": ["ST5"]
}
