"""A cart of one box on wheels or on the ground, for contacts that roll, drag and hold."""

_WHEEL = """<link name="{name}_wheel"><inertial><mass value="0.05"/><inertia ixx="2.2e-5" iyy="4e-5" izz="2.2e-5"/></inertial>
<collision><origin rpy="1.5707963 0 0"/><geometry><cylinder radius="0.04" length="0.02"/></geometry></collision></link>
<joint name="{name}" type="continuous"><parent link="base"/><child link="{name}_wheel"/>
<origin xyz="0.03 {y} 0.04"/><axis xyz="0 1 0"/></joint>"""
_CART = """<robot name="cart"><link name="base"><inertial><origin xyz="0 0 0.04"/><mass value="0.5"/>
<inertia ixx="3e-4" iyy="6.4e-4" izz="8.7e-4"/></inertial></link>
<link name="skid"><inertial><mass value="0.01"/><inertia ixx="1e-6" iyy="1e-6" izz="1e-6"/></inertial>
<collision><geometry><sphere radius="0.01"/></geometry></collision>
<contact><lateral_friction value="{friction}"/></contact></link>
<joint name="s" type="fixed"><parent link="base"/><child link="skid"/><origin xyz="-0.05 0 0.01"/></joint>"""
RADIUS = 0.04  # m


def write_cart(path, friction):
    """A cart on two driven wheels and a skid behind, that drags with `friction`."""
    wheels = _WHEEL.format(name="left", y=0.05) + _WHEEL.format(name="right", y=-0.05)
    path.write_text(_CART.format(friction=friction) + wheels + "</robot>")
    return path
