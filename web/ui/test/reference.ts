// What an application reads with the types of the HTTP API, which `npm run check` compiles as strict as it gets.
import type { BridgeEvent, HookEvent, Message } from '../../../docs/reference/voicebridge.d.ts';

export function shown(message: Message): string[] {
  return message.parts.map((part) => {
    switch (part.type) {
      case 'text':
      case 'reasoning':
        return part.text;
      case 'file':
        return `${part.mediaType} ${part.url}`;
      case 'dynamic-tool':
        return `${part.toolName}: ${part.state === 'output-error' ? (part.errorText ?? '') : JSON.stringify(part.output)}`;
      case 'source-url':
      case 'source-document':
        return part.title ?? part.sourceId;
      case 'step-start':
        return '';
      default:
        return 'toolCallId' in part ? part.type.slice('tool-'.length) : JSON.stringify(part.data);
    }
  });
}

export function told(event: BridgeEvent | HookEvent): string {
  switch (event.type) {
    case 'bridge.ready':
      return event.thread_id;
    case 'bridge.tool.failed':
      return event.error ?? '';
    case 'bridge.message':
      return shown(event.message).join();
    case 'message.completed':
      return shown(event.data.message).join();
    case 'call.ended':
      return event.data.end_reason;
    default:
      return event.type;
  }
}
