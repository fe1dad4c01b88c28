foreach(noun classes home_line home_records meter resume resume_line)
  rlb_unit_test(skills/${noun} LINK rlb::skills)
endforeach()
