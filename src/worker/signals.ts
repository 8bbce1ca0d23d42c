/** Runs `stop` when the process is told to end, then lets it end as the signal says. A second signal ends it at once. */
export function stopOnSignals(
  stop: () => Promise<void>,
  signals: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT"],
): () => void {
  const undo = (): void => {
    for (const signal of signals) process.removeListener(signal, onSignal);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    undo();
    // With nobody listening any more this ends the process, with the status that its parent expects. Where the
    // application listens too, it is the one to decide.
    const end = (): void => {
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
    };
    stop().then(end, end);
  };
  for (const signal of signals) process.on(signal, onSignal);
  return undo;
}
