// Package queue keeps messages that wait until their thread is free, and sends
// them: one after the other on each thread, in their order, through crashes and
// restarts, and never twice.
//
//	POST …/queue ──▶ Queue.Add ──▶ the table ──▶ watchers: queue_updated
//	                                  │
//	   a turn ended, a call spoke ────┤ kick
//	   every two seconds, at start ───┤ scan: recently used threads first
//	                                  ▼
//	                        claim: the row is this process's  queue_message_sending
//	                                  │
//	              ┌───────────────────┴──────────────────┐
//	      no call: a turn of text          a live call of this process    (Door.Say)
//	              └───────────────────┬──────────────────┘
//	      one transaction: the user's message, and the row is sent
//	                                  │         queue_updated, queue_message_sent
//	               the turn ends: next message, or back to the head
//
// A message that was claimed and not sent is at the head of its queue again when
// its process has tried for too long, or is found dead. The id of the thread's
// message is fixed when the message is queued, so it is written only once.
//
// If its turn fails, a message goes back to the head of the queue, to be answered
// again, not written again. If the failure may pass, that happens after a pause.
// Otherwise the queue is paused and says why, until somebody resumes it, changes or
// removes the message, a turn of the thread succeeds, or the server restarts, which
// may have brought what was missing. Such an answer is given by text; while a call
// is live, the messages behind it are said in the call.
//
// On PostgreSQL every process may send for every thread. The claim, the row of
// a turn and the record of a live call make sure that only one does at a time.
package queue
