// Package queue keeps messages that wait until their thread is free, and sends
// them: one after the other on each thread, in their order, through crashes and
// restarts, and never twice.
//
//	POST …/queue ──▶ Queue.Add ──▶ the table ──▶ watchers: queue_updated
//	                                  │
//	   a turn ended, a call spoke ────┤ kick
//	   every two seconds, at start ───┤ scan: the latest used threads first
//	                                  ▼
//	                        claim: a lease on the row        queue_message_sending
//	                                  │
//	              ┌───────────────────┴──────────────────┐
//	     no call: Coordinator.Turn            a live call: Calls.Deliver
//	              └───────────────────┬──────────────────┘
//	      one transaction: the user's message, and the row is sent
//	                                  │         queue_updated, queue_message_sent
//	               the turn ends: next message, or back to the head
//
// A message that was claimed and not sent is at the head of its queue again when
// the lease is over, or when the next start finds its process dead. The message
// of the thread has its id from the moment it is queued, so it is written once.
//
// A turn that fails puts its message back to the head, for another answer and not
// for another message: after a while when the failure may pass, else the queue
// is paused and says why, until somebody lets it go on, changes or removes the
// message, a turn of the thread succeeds, or a start may have brought what was
// missing. An answer that is still wanted is given by text: while a call lives, the
// messages behind it are said in the call.
//
// On PostgreSQL every process may send for every thread. The claim, the lease of
// a turn and the record of a live call keep two of them apart.
package queue
