package session

import "slices"

// sidebandJoined takes another sideband. It gets what a browser that joins gets, as soon as there is a session.
func (s *State) sidebandJoined(id int) {
	if s.phase >= draining {
		s.do(EndSideband{ID: id})
		return
	}
	s.sidebands = append(s.sidebands, sideband{id: id})
	s.welcomeSidebands()
}

// welcomeSidebands tells those that do not know it yet the session as it is.
func (s *State) welcomeSidebands() {
	if s.view.created == nil {
		return
	}
	for i := range s.sidebands {
		side := &s.sidebands[i]
		if side.welcomed {
			continue
		}
		side.welcomed = true
		s.sendTo(side.id, s.view.session(side.id), false)
		s.welcome(side.id)
	}
}

// sidebandGone takes that a sideband has ended, and with it its tools.
func (s *State) sidebandGone(id int) {
	if !s.joined(id) {
		return
	}
	s.sidebands = slices.DeleteFunc(s.sidebands, func(o sideband) bool { return o.id == id })
	s.do(EndSideband{ID: id})
	delete(s.view.shown, id)
	if s.phase >= draining {
		return
	}
	s.settings.dropTools(id)
	for _, run := range s.tools.unfinished() {
		if run.side == id && !run.delivered {
			s.tools.fail(run)
		}
	}
}
