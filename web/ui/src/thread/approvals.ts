import { asText } from '../base/json';
import { answerableUntil, type Approval } from '../message/live';
import type { SocketEvent } from '../link/socket';

// The approvals that a thread's typed turns and its call wait for.

/** The maximum number kept; one turn asks for far fewer. */
const most = 16;

/** Applies one event of the thread's socket. Events about other things change nothing. */
export function reduceApprovals(approvals: Approval[], { type, data }: SocketEvent, now = Date.now()): Approval[] {
  const id = asText(data.tool_call_id);
  switch (type) {
    case 'connected':
      // Open approvals are requested again right after this.
      return approvals.length === 0 ? approvals : [];
    case 'bridge.tool.approval_required': {
      const nonce = asText(data.nonce);
      if (id === '' || nonce === '') return approvals;
      const fresh = { toolCallId: id, name: asText(data.name), input: data.input, nonce, until: answerableUntil(data.expires_at, now) };
      return [...without(approvals, id), fresh].slice(-most);
    }
    case 'bridge.tool.approval_closed':
      return without(approvals, id);
    default:
      return approvals;
  }
}

function without(approvals: Approval[], id: string): Approval[] {
  return approvals.some((a) => a.toolCallId === id) ? approvals.filter((a) => a.toolCallId !== id) : approvals;
}

/** The approvals the user is asked for. One of this page's own call arrives both on its data channel and on the thread's socket. */
export function questions(ofCall: Approval[], ofThread: Approval[]): Approval[] {
  const known = new Set(ofCall.map(({ toolCallId }) => toolCallId));
  return [...ofCall, ...ofThread.filter(({ toolCallId }) => !known.has(toolCallId))];
}

/** What the browser sends back on the same socket. */
export function answerTo({ toolCallId, nonce }: Approval, yes: boolean): object {
  return { type: yes ? 'bridge.tool.approve' : 'bridge.tool.deny', tool_call_id: toolCallId, nonce };
}
