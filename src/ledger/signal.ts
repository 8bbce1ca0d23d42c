export interface ToldSignal {
  /** JSON, or null where it was sent without a value. */
  readonly value: string | null;
  readonly fingerprint: string | null;
  readonly actor: string | null;
  readonly sent_at: string;
}
