/** Keys and errors come from strangers: what would move a terminal's cursor or colour it is shown, not obeyed. */
export function plain(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001F\u007F-\u009F\u2028\u2029]/g, (char) =>
    char === "\n" || char === "\t" ? " " : "\uFFFD",
  );
}
