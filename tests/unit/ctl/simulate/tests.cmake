foreach(noun access_line classify playback)
  rlb_unit_test(ctl/simulate/${noun} LINK rlb::ctl)
endforeach()
