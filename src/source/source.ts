/** A source says whether bytes are genuine and which event they are. It reads nothing but bytes and headers. */

/** A header by its lower-case name; undefined where absent. Several values come joined by ", ". */
export type HeaderReader = (name: string) => string | undefined;

export interface SignedRequest {
  readonly body: Uint8Array;
  readonly header: HeaderReader;
}

/** An HTTP answer whose form the sender's protocol prescribes. */
export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a source says of a genuine request. */
export interface Identity {
  /** The sender's own id of the event: the task's key. */
  readonly id: string;
  readonly type: string;
  /** Connect account, GitHub installation, shop, … : part of the scope. */
  readonly account?: string | undefined;
  /** False for test events: part of the scope. Undefined where the sender has no such notion. */
  readonly livemode?: boolean | undefined;
  /** Ties events of one object together: for twin keys and serial execution. */
  readonly objectId?: string | undefined;
  /** A hash over what must be equal between deliveries of one id; unset where deliveries may differ. */
  readonly fingerprint?: string | undefined;
  /** When the sender says it happened. A hint; it never decides order. */
  readonly createdAt?: Date | undefined;
  /**
   * What to answer instead of Onceward's own 2xx, for senders that read the answer: Discord wants a
   * deferral, Slack shows the body to the user. Only a 2xx is replaced; every other answer stays as it is.
   */
  readonly acknowledge?: Reply | undefined;
}

/** An answer to a request that is part of the sender's protocol and not an event (a ping, a challenge). */
export interface ProtocolReply {
  readonly reply: Reply;
}

export interface Source<Events extends Record<string, unknown> = Record<string, unknown>> {
  readonly name: string;
  /** Throws `config_invalid` where it lacks what `verify` needs: a secret that is not in the environment yet. */
  check?(): void;
  /**
   * Verifies the signature over the raw bytes, in constant time, as a total function: it returns
   * or throws an OncewardError with one of the signature codes, whatever the headers hold. `now` is in ms.
   */
  verify(request: SignedRequest, now: number): void;
  /**
   * Called only after `verify`. Throws `body_unreadable` where the bytes hold no event, and
   * `livemode_mismatch` where the source was told to refuse the other mode.
   */
  identify(request: SignedRequest): Identity | ProtocolReply;
  /**
   * What handlers get as `event`, or a promise of it, from the stored bytes: of the type that `Events`
   * says for the event's type. It may call the sender's API, so it is awaited before a transaction begins.
   */
  parse(body: Uint8Array, identity: { id: string; type: string }): unknown;
  /**
   * The event as far as its bytes alone tell it, for `serialBy`, which is asked before the event is recorded.
   * Only needed where `parse` calls the sender's API; left out, it is `parse`.
   */
  read?(body: Uint8Array): unknown;
  /** A delivery of its own making that `verify` takes for genuine, where the source can sign one: to warm up with. */
  sample?(now: number): SignedRequest;
  /** Types that can happen only once per object: keyed by type + object id, since twins occur. */
  readonly oncePerObject?: ReadonlySet<string> | undefined;
  /** The status for a request that is not genuine, where the sender wants one of its own. 400 otherwise. */
  readonly refusalStatus?: number | undefined;
  /** Only here so that the types of events travel with the source. */
  readonly events?: Events | undefined;
}
