import { fetchOnce, mailOnce, type Once } from "onceward";
import { createTransport } from "nodemailer";

interface Lead {
  readonly name: string;
  readonly email: string;
  readonly company: string;
}

interface World {
  /** The address of the lead, company and sent-mail APIs. */
  readonly api: string;
  readonly smtp: string;
}

/**
 * An agent of three steps: it sources a lead, enriches it, and sends one mail. Kill it anywhere and start it
 * again with the same run: it goes on behind its last finished step, and the lead gets one mail.
 */
export function reachOut(once: Pick<Once, "run">, world: World, run: string): Promise<string> {
  const mail = mailOnce(createTransport(world.smtp));

  return once.run(`reach-out ${run}`, async ({ step }) => {
    const lead = await step("source", async (tools): Promise<Lead> => {
      const answer = await fetchOnce(tools, `${world.api}/leads`, { method: "POST", body: run });
      return (await answer.json()) as Lead;
    });

    const company = await step("enrich", async (tools) => {
      const answer = await fetchOnce(tools, `${world.api}/companies/${encodeURIComponent(lead.company)}`);
      return (await answer.json()) as { employees: number };
    });

    const message = {
      from: "agent@example.com",
      to: lead.email,
      subject: `${lead.company} and us`,
      text: `Hello ${lead.name}, a company of ${company.employees} people could save a day a week.`,
    };
    const sent = await mail(step, "mail", message, {
      // SMTP knows no keys. After a crash in the middle of sending, the agent looks before it sends again.
      unknown: {
        async verify(key) {
          const found = await fetch(`${world.api}/sent/${key}`);
          if (found.status === 404) return { done: false };
          const { messageId } = (await found.json()) as { messageId: string };
          return {
            done: true,
            value: { messageId, accepted: [lead.email], rejected: [], response: "found" },
          };
        },
      },
    });
    return sent.messageId;
  });
}
